-- Nobody but the owner may call anything unless create_roles_v1 or a grant of the owner's says so.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA workhorse FROM PUBLIC;
