import pytest
from lake_assets_tests.shop import *
from lake_assets_tests.conftest import spark
@pytest.mark.parametrize("i",range(6))
def test_r(spark,tmp_path,i):
    shop=open_shop(tmp_path)
    shop.change("sales",[1]); shop.change("notes",[1])
    r=shop.apply()
    for e in r.get_asset_check_evaluations():
        if not e.passed: print(i, e.asset_key,e.check_name,{k:v.value for k,v in e.metadata.items()})
    assert r.success
